// Play the recordings on the page that has places for them. The player is loaded only there.
const places = document.querySelectorAll("[data-recording]");
if (places.length) {
  const own = document.currentScript.src;
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("asciinema-player-3.18.0.css", own).href;
  const player = document.createElement("script");
  player.src = new URL("asciinema-player-3.18.0.min.js", own).href;
  player.onload = () => {
    for (const place of places) {
      AsciinemaPlayer.create(new URL(`../recordings/${place.dataset.recording}.cast`, own).href, place, {
        poster: "npt:9",
        controls: true,
      });
    }
  };
  document.head.append(style, player);
}
