"""Attack a served board as its tests do, with real accounts, and print the outcome of each attack as a table.

The exit code is 1 if an attack had an effect.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

REPOSITORY = Path(__file__).resolve().parents[1]
_UNIT, _E2E = "tests/unit/service", "tests/e2e"
_SSH, _UNIX = f"{_UNIT}/test_ssh_door.py", f"{_UNIT}/test_unix_door.py"
_ANSWERS, _CONVERSATION = f"{_UNIT}/test_answers.py", f"{_UNIT}/test_conversation.py"
_PAGE, _SERVED = f"{_UNIT}/test_page.py", f"{_E2E}/test_served_board.py"
_COMPETITION = f"{_SERVED}::test_three_accounts_play_a_competition_on_the_board_of_a_fourth"

ATTACKS: Mapping[str, tuple[str, ...]] = {
    "an impostor's socket in the place of the service's": (
        f"{_UNIX}::test_a_socket_where_another_account_could_have_put_it_is_not_trusted",
        f"{_UNIX}::test_an_impostor_in_a_sticky_folder_is_not_trusted",
        f"{_SSH}::test_the_socket_of_an_impostor_is_refused_on_its_host",
    ),
    "another's account": (
        f"{_ANSWERS}::test_the_user_is_the_account_that_the_kernel_names_and_has_its_role",
        f"{_SSH}::test_the_user_is_the_account_of_the_login",
    ),
    "rights of a group that the account has left": (
        f"{_SERVED}::test_an_account_gains_and_loses_the_rights_of_its_groups_while_the_service_runs",
    ),
    "roles by settings of the client, another's run cancelled": (_COMPETITION,),
    "reading a closed board": (
        f"{_ANSWERS}::test_a_board_that_is_closed_to_a_user_does_not_exist_for_them",
        f"{_ANSWERS}::test_a_made_up_run_shows_no_ranks_of_a_board_that_is_closed_to_the_user",
        f"{_UNIT}/test_changes.py::test_a_change_on_a_closed_board_reaches_its_members_alone",
        f"{_PAGE}::test_a_closed_board_is_on_no_page_not_even_for_its_members_and_admins",
        f"{_PAGE}::test_the_metrics_do_not_count_the_runs_of_closed_boards",
    ),
    "another's code, log or result": (
        f"{_ANSWERS}::test_the_runs_code_and_results_of_another_are_out_of_reach",
        f"{_ANSWERS}::test_the_output_of_a_run_is_its_owners_and_the_admins",
        f"{_PAGE}::test_no_code_log_note_or_message_is_on_a_page",
    ),
    "writing into the board's files, a forged result": (
        f"{_UNIT}/test_server.py::test_a_member_cannot_touch_the_boards_files",
    ),
    "links and other accounts in the socket's folder": (
        f"{_UNIX}::test_a_link_of_another_account_leads_to_no_socket_that_is_trusted",
        f"{_UNIT}/test_server.py::test_a_service_does_not_start_where_another_account_could_replace_its_files",
    ),
    "one byte at a time": (
        f"{_CONVERSATION}::test_a_client_that_sends_a_byte_at_a_time_is_let_go",
        f"{_PAGE}::test_a_request_that_comes_a_byte_at_a_time_is_cut_off",
    ),
    "answers that are not read": (
        f"{_CONVERSATION}::test_a_client_that_reads_no_answer_is_let_go_with_its_answers",
        f"{_PAGE}::test_a_reader_that_takes_no_data_is_cut_off",
    ),
    "thousands of connections": (
        f"{_CONVERSATION}::test_one_users_connections_leave_room_for_others",
        f"{_PAGE}::test_idle_connections_of_one_user_leave_room_for_others",
        f"{_PAGE}::test_readers_over_tcp_leave_connections_to_the_unix_socket",
    ),
    "a flood of runs, of waits, and of the log": (
        f"{_ANSWERS}::test_a_question_has_a_bounded_number_of_runs",
        f"{_UNIT}/test_log.py",
        f"{_ANSWERS}::test_a_user_who_floods_is_refused_and_others_are_not",
    ),
    "bodies of gigabytes": (
        f"{_CONVERSATION}::test_a_line_that_no_client_sends_ends_the_connection_with_a_sentence",
        f"{_PAGE}::test_long_lines_and_many_headers_are_refused",
    ),
    "malformed and cut lines, and any argument of any route": (
        f"{_ANSWERS}::test_whatever_a_route_is_asked_the_service_has_no_fault",
        f"{_UNIT}/test_fuzzed_routes.py",
        f"{_ANSWERS}::test_a_time_that_is_none_in_utc_is_refused_at_every_route_that_takes_one",
        f"{_PAGE}::test_any_request_gets_one_answer_and_causes_no_fault",
    ),
    "pipelining": (f"{_CONVERSATION}::test_questions_that_are_sent_at_once_are_answered_in_turn",),
    "smuggling on the page's listener": (f"{_PAGE}::test_no_second_request_is_smuggled_behind_a_first",),
    "path tricks of creators": (
        f"{_ANSWERS}::test_an_archive_that_climbs_out_of_its_folder_is_refused",
        f"{_ANSWERS}::test_a_creators_name_of_a_task_is_no_path_in_the_services_folder",
        f"{_ANSWERS}::test_a_packed_task_file_reads_nothing_beside_it",
    ),
    "HTML and terminal sequences in texts that others see": (
        f"{_PAGE}::test_hostile_texts_are_text",
        f"{_PAGE}::test_the_hostile_description_of_a_task_is_text",
    ),
    "a submission or a task's judge that looks for the service from inside its job": (
        f"{_SERVED}::test_code_in_a_job_of_the_services_own_account_reaches_neither_the_service_nor_its_board",
        f"{_E2E}/test_account_of_jobs.py::test_jobs_belong_to_their_account_and_the_board_to_the_service",
    ),
    "kill -9 of the service at random moments": (f"{_E2E}/test_killed_service.py",),
}


def main() -> int:
    """Print the table, and return 1 if an attack had an effect."""
    outcomes = _outcomes()
    print("| attack | tests | outcome |\n|---|---:|---|")
    failed = False
    for attack, tests in ATTACKS.items():
        found = [each for test in tests for each in _of(test, outcomes)]
        bad = [name for name, outcome in found if outcome == "failed"]
        tried = sum(outcome == "passed" for _, outcome in found)
        missing = tried == 0
        failed = failed or bool(bad) or not found
        words = f"AN EFFECT: {', '.join(bad)}" if bad else "not tried here" if missing else "no effect"
        print(f"| {attack} | {tried} | {words} |")
    return int(failed)


def _of(test: str, outcomes: Mapping[tuple[str, str], str]) -> Iterator[tuple[str, str]]:
    """Yield the cases of a test, or of all tests of a file, each with its outcome."""
    file, _, name = test.partition("::")
    for (of_file, case), outcome in outcomes.items():
        if of_file == file and (not name or case.partition("[")[0] == name):
            yield case, outcome


def _outcomes() -> dict[tuple[str, str], str]:
    """Run the tests and return the outcome of each case by its file and its name."""
    tests = sorted({test for tests in ATTACKS.values() for test in tests})
    with tempfile.TemporaryDirectory(prefix="service-attacks-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run([*command, *tests], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(done.stdout + done.stderr)
        if done.returncode:
            print(done.stdout, file=sys.stderr)
        cases = ET.parse(report).iter("testcase")  # noqa: S314 - pytest's own file
        return {(_file(case.get("classname", "")), case.get("name", "")): _outcome(case) for case in cases}


def _file(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


if __name__ == "__main__":
    sys.exit(main())
