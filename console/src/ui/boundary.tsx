// Where a page that cannot be shown stops: the frame around it stays.
import { Component } from "react";
import type { ReactNode } from "react";
import { Trouble } from "./trouble.tsx";

interface State {
  error?: Error;
}

export class Boundary extends Component<{ children: ReactNode }, State> {
  override state: State = {};

  static getDerivedStateFromError(error: Error): State {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    /* A file that did not come is asked for anew only by a page that is loaded anew. */
    return <Trouble error={error} retry={() => location.reload()} />;
  }
}
