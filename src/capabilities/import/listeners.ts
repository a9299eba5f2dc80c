import { EXACT, type ImportedHost, type ImportedListener } from './model.js'

/** A listener on every address for each port of the hosts. */
export function listenersOf(hosts: readonly ImportedHost[]): ImportedListener[] {
  const listeners = new Map<number, ImportedListener>()
  for (const { ports, at } of hosts) {
    for (const { port, tls } of ports) {
      const known = listeners.get(port)
      listeners.set(port, {
        address: '0.0.0.0',
        port,
        tls: tls || known?.tls === true,
        proxyProtocol: false,
        at: known?.at ?? at,
        verdict: EXACT
      })
    }
  }
  return [...listeners.values()].sort((one, other) => one.port - other.port)
}
