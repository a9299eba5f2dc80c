import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Test {
  teardown(run: () => unknown): void
}

export interface HeldUpstream {
  readonly url: string
  /** What is not answered yet, in the order of arrival: a test ends each when it wants to. */
  readonly waiting: readonly ServerResponse[]
}

/** An upstream that answers when it is told to. */
export async function startHeldUpstream(t: Test): Promise<HeldUpstream> {
  const waiting: ServerResponse[] = []
  const server = createServer((_request, response) => void waiting.push(response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, waiting }
}
