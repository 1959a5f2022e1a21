import "./page.css";
import { render } from "preact";
import { App } from "./app";
import { refresh } from "./chat/models";
import { start } from "./chat/state";

render(<App />, document.getElementById("app")!);
void refresh();
void start();
