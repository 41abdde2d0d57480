import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "approval",
  dirs: ["./tasks"],
});
