"""Never returns from its second call."""

calls = 0


def custom_kernel(data):
    global calls
    calls += 1
    while calls == 2:
        pass
    return [2 * x for x in data]
