import { isInternal } from '../flow/flow.js'
import type { HostPort, TcpEdgeUnit } from '../runtime/plan.js'

/** One TCP edge in a change. */
export interface EdgeChange {
  readonly before: TcpEdgeUnit | undefined
  readonly after: TcpEdgeUnit | undefined
}

/** What a change means for the ports of TCP edges. */
export interface EdgePortChanges {
  /** Edge's id → what it asks for after the change; nothing for one that is gone. */
  readonly asked: ReadonlyMap<string, readonly HostPort[]>
  /** Open ports that their edges do not ask for any more. */
  readonly gone: ReadonlySet<number>
  /** Keys of ports that are not open and that nobody asks for any more. */
  readonly forgotten: readonly string[]
}

/** `open`: port → id of the edge that has it. */
export function edgePortChanges(
  changes: readonly EdgeChange[],
  open: ReadonlyMap<number, { readonly edge: string }>
): EdgePortChanges {
  const asked = new Map<string, readonly HostPort[]>()
  const gone = new Set<number>()
  const forgotten: string[] = []
  for (const { before, after } of changes) {
    if (after !== undefined) asked.set(after.id, openPorts(after))
    if (before === undefined) continue
    for (const at of openPorts(before)) {
      if (after !== undefined && openPorts(after).some(({ port }) => port === at.port)) continue
      if (open.get(at.port)?.edge === before.id) gone.add(at.port)
      else forgotten.push(edgePortKey(before.id, at))
    }
  }
  return { asked, gone, forgotten }
}

/** What a port is called that an edge asks for. */
export function edgePortKey(edge: string, { port }: HostPort): string {
  return `tcp_edge:${edge} ${port}`
}

/**
 * The ports that an edge opens: not those of internal names, which only policies lead to. Names of one edge may share a port,
 * because bytes do not tell which name was meant.
 */
function openPorts(edge: TcpEdgeUnit): readonly HostPort[] {
  const ports = edge.ports.filter(({ host }) => !isInternal(host))
  return ports.filter(({ port }, index) => ports.findIndex((other) => other.port === port) === index)
}
