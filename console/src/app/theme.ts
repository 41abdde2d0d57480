// Light, dark, or what the system says; kept for this browser.
import { useState } from "react";

export type Theme = "system" | "light" | "dark";
const order: Theme[] = ["system", "light", "dark"];
const remembered = "helmr.theme";

function apply(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
}

function stored(): Theme {
  const value = localStorage.getItem(remembered);
  return order.find((theme) => theme === value) ?? "system";
}

apply(stored());

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(stored);
  return [
    theme,
    () => {
      const next = order[(order.indexOf(theme) + 1) % order.length] as Theme;
      localStorage.setItem(remembered, next);
      apply(next);
      setTheme(next);
    },
  ];
}
