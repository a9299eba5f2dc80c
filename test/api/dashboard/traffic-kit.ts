import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { freePort } from '../../capabilities/site-file/site-kit.js'
import { dashboard, type OpenDashboard } from './browser.js'

/** Lines 5 to 14 hold the rule that refuses the third request to /limited. */
export const POLICY = `on_http_request:
  - name: closed
    expressions: ["req.url.path == '/closed'"]
    actions: [{ type: deny }]
  - name: two a minute
    expressions: ["req.url.path == '/limited'"]
    actions:
      - type: rate-limit
        config:
          name: all
          algorithm: sliding_window
          capacity: 2
          rate: 60s
          bucket_key: [conn.client_ip]

  # For upstreams.
  - name: marked
    actions:
      - type: add-headers
        config: { headers: { x-tier: gold } }
`

interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

export interface OpenTraffic extends OpenDashboard {
  /** Where clients reach the product, without a slash at the end. */
  readonly traffic: string
  /** What the upstream got. */
  readonly seen: readonly SeenRequest[]
  /** Opens the list, and waits until it is live. */
  list(query?: string): Promise<void>
}

/** The dashboard of a product with an upstream, on the page of traffic. */
export async function openTraffic(t: Test, setup: Parameters<typeof dashboard>[1] = {}): Promise<OpenTraffic> {
  const seen: SeenRequest[] = []
  const upstream = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk
    })
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      seen.push({ method, url, headers, body })
      response.setHeader('content-type', 'application/json')
      response.end('{"ok":true}')
    })
  })
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  // A port that is known before it is bound can be shown as the address to ask.
  const options = { LISTEN: `127.0.0.1:${await freePort()}`, ...setup.options }
  const open = await dashboard(t, { upstream: { port }, policy: POLICY, ...setup, options })
  const list = async (query = '') => {
    await open.go(`traffic${query}`)
    await open.page.getByText('Live', { exact: true }).waitFor()
  }
  await list()
  return { ...open, traffic: `http://127.0.0.1:${open.sluice.port}`, seen, list }
}

/** Asks one after the other. */
export async function ask(url: string, times: number): Promise<void> {
  for (let n = 0; n < times; n++) await (await fetch(url)).arrayBuffer()
}
