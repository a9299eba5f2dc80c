import net from 'node:net'
import type { Test } from 'tap'

interface Handle {
  readonly fd: number
  close(): void
  getsockname(out: { port?: number }): number
}

/** Binds a socket that nothing in this process accepts on, as a service manager does. */
export function heldSocket(t: Test): { fd: number; port: number } {
  const make = (net as unknown as { _createServerHandle(host: string, port: number, type: 4): Handle })
    ._createServerHandle
  const handle = make('127.0.0.1', 0, 4)
  t.teardown(() => handle.close())
  const out: { port?: number } = {}
  handle.getsockname(out)
  return { fd: handle.fd, port: out.port as number }
}
