import { render } from "preact";
import { App } from "./app";
import { applyTheme } from "./theme";
import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/pages.css";

applyTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
