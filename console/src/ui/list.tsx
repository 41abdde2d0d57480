// A table of what a query found: its failure, its emptiness, its rows, and the older ones on demand.
import type { ReactNode } from "react";
import type { Query } from "../app/query.ts";
import { Trouble } from "./trouble.tsx";

export interface Column<T> {
  head: string;
  cell(item: T): ReactNode;
}

interface Shown<T> {
  query: Query<unknown>;
  items: T[] | undefined;
  keyOf(item: T): string;
  columns: Column<T>[];
  empty: ReactNode;
}

export function List<T>({ query, items, keyOf, columns, empty }: Shown<T>): ReactNode {
  if (query.error && !items) return <Trouble error={query.error} retry={query.refresh} />;
  if (!items)
    return (
      <p className="dim" role="status">
        Loading…
      </p>
    );
  if (items.length === 0) return empty;
  return (
    <div className="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ head }) => (
              <th key={head}>{head}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={keyOf(item)}>
              {columns.map(({ head, cell }) => (
                <td key={head}>{cell(item)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
