import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "secret-vault",
  dirs: ["./tasks"],
});
