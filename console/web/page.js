// The token is typed, and exchanged for a key of this page: no cookie, no address, no history has it.
// The key is kept for this tab and this port alone, so that the page can be loaded again.
const KEPT = "key";
const shown = (name, is) => document.body.classList.toggle(name, is);

async function enter(bearer) {
  let answer;
  try {
    const headers = {Authorization: `Bearer ${bearer}`};
    answer = await fetch("/session", {method: "POST", headers});
  } catch {
    return ask("The dashboard does not answer.");
  }
  if (!answer.ok) {
    sessionStorage.removeItem(KEPT);
    return ask(await answer.text());
  }
  const {key, title} = await answer.json();
  sessionStorage.setItem(KEPT, key);
  document.title = title;
  shown("-asking", false);
  connect(key);
}

function ask(why) {
  document.querySelector(".why").textContent = why;
  shown("-asking", true);
  document.querySelector("input").focus();
}

// Textual's script connects when the window has loaded, to the address that the terminal names. Loaded
// before that, it would connect twice, and the page would show the end of the one that is refused.
async function connect(key) {
  if (document.readyState !== "complete") {
    await new Promise((loaded) => window.addEventListener("load", loaded));
  }
  const address = `${location.origin.replace(/^http/, "ws")}/ws`;
  document.querySelector(".textual-terminal").dataset.sessionWebsocketUrl = address;
  window.WebSocket = class extends WebSocket {
    constructor(url) {
      super(url, ["breakglass", key]);
    }
  };
  const script = document.createElement("script");
  script.src = "/static/js/textual.js";
  script.onload = () => {
    window.onload();
    focus();
  };
  document.head.append(script);
}

document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.querySelector("input");
  const token = field.value;
  field.value = "";
  enter(token.trim());
});

// Keys go to the console without a click first, and again after the page was left.
const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
window.addEventListener("focus", focus);

const kept = sessionStorage.getItem(KEPT);
if (kept) enter(kept);
else ask("Type the token that `breakglass serve` printed, or that who runs it chose.");
