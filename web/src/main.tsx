import "./page.css";
import { render } from "preact";
import { App, connect } from "./app";
import { follow, list } from "./chat/state";

render(<App />, document.getElementById("app")!);
addEventListener("hashchange", follow);
void connect();
void list().then(follow);
