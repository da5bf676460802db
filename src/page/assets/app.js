// Puts the page together: two views, one feed of the fleet, and what the header says.
import {Chat} from "./chat.js";
import {byId, setText} from "./dom.js";
import {FleetFeed, FleetView} from "./fleet.js";
import {rate} from "./format.js";
import {askForKey, forgetKey, onKey} from "./keys.js";

const chat = new Chat();
const fleetView = new FleetView();

const SAID = {ready: "Ready", loading: "Loading", failed: "The chain has failed", lost: "No connection"};

function showStatus(kind, text) {
  byId("status").dataset.kind = kind;
  setText(byId("status-text"), text);
  // Read out where it changes, without figures, which change each second.
  setText(byId("status-said"), SAID[kind]);
}

/** The worst of all models, else what they give together. */
function statusOf(fleet, history) {
  const states = fleet.models.map((model) => model.state);
  if (states.includes("failed")) return ["failed", "Failed"];
  if (states.length === 0 || states.includes("loading")) return ["loading", "Loading"];
  const rates = fleet.models.map((model) => history.of(model.id)?.tokens_per_s.at(-1) ?? 0);
  const sum = rates.reduce((all, one) => all + one, 0);
  return ["ready", sum > 0 ? `${rate(sum)} tokens/s` : "Ready"];
}

const feed = new FleetFeed({
  onFleet(fleet, history) {
    byId("key-needed").hidden = true;
    showStatus(...statusOf(fleet, history));
    setText(byId("version"), `Paceline ${fleet.version}`);
    chat.showModels(fleet.models);
    fleetView.take(fleet, history);
  },
  onRestart() {
    fleetView.restart();
  },
  onLost(error) {
    byId("key-needed").hidden = error.status !== 401;
    showStatus("lost", error.status === 401 ? "Key needed" : "No connection");
  },
});

/** #fleet or the chat; other names in the address are places on the page. */
function showView() {
  if (!["", "#chat", "#fleet"].includes(location.hash)) return;
  const isFleet = location.hash === "#fleet";
  byId("chat-view").hidden = isFleet;
  byId("fleet-view").hidden = !isFleet;
  for (const [id, isCurrent] of [["to-chat", !isFleet], ["to-fleet", isFleet]]) {
    if (isCurrent) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  document.title = isFleet ? "Fleet · Paceline" : "Paceline";
  feed.watch(isFleet);
  if (isFleet) fleetView.show();
  // Not on a phone, where it would open the keyboard over half of the page.
  else if (!matchMedia("(pointer: coarse)").matches) byId("composer-input").focus();
}

for (const dialog of document.querySelectorAll("dialog")) {
  // A click beside it closes it, as Escape does.
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
byId("key-cancel").onclick = () => byId("key-dialog").close();
byId("key-ask").onclick = () => {
  forgetKey();
  askForKey();
};
onKey(() => feed.retry());
addEventListener("hashchange", showView);
showView();
