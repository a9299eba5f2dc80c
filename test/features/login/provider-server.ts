import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Test {
  teardown(run: () => Promise<void>): void
}

/** Serves an identity provider on a free port until the test ends; resolves with its URL. */
export async function serveProvider(t: Test, serve: RequestListener): Promise<string> {
  const server = createServer(serve).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  t.teardown(async () => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
