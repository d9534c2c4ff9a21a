// Play the recording on the page that has a place for one. The player is loaded there alone.
const place = document.getElementById("recording");
if (place) {
  const own = document.currentScript.src;
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("asciinema-player-3.18.0.css", own).href;
  const player = document.createElement("script");
  player.src = new URL("asciinema-player-3.18.0.min.js", own).href;
  player.onload = () => {
    AsciinemaPlayer.create(new URL("../recordings/app.cast", own).href, place, {
      poster: "npt:9",
      controls: true,
    });
  };
  document.head.append(style, player);
}
