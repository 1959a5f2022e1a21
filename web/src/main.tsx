import "./page.css";
import { render } from "preact";
import { App } from "./app";
import { refresh } from "./chat/models";
import { follow, list } from "./chat/state";

render(<App />, document.getElementById("app")!);
addEventListener("hashchange", follow);
void refresh();
void list().then(follow);
