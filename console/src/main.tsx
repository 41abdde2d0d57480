import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/app.tsx";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/pages.css";
import "./style/work.css";

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
