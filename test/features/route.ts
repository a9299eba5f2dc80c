import { createServer, type IncomingHttpHeaders, type RequestListener, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { type Answer, asker } from '../api/asking.js'
import { API_KEY, type SluiceSetup, startSluice } from '../helpers/sluice.js'

const HOST = 'app.example.com'

export interface Response {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly code: string | undefined
}

export interface Asked {
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Address that the client seems to come from; the proxy trusts whoever asks here. */
  readonly from?: string
  readonly signal?: AbortSignal
}

/**
 * The product with one HTTPS edge, one route and one upstream, all made through the API. `modules` stand in the body that
 * creates the route.
 */
export async function startRoute(
  t: Test,
  upstream: RequestListener,
  modules: Readonly<Record<string, unknown>> = {},
  setup: SluiceSetup = {}
) {
  const server = createServer(upstream).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const sluice = await startSluice(t, {
    ...setup,
    options: { TRUSTED_PROXIES: '127.0.0.1/32', ...setup.options }
  })
  const ask = asker('127.0.0.1', sluice.apiPort)
  const api = async (method: string, path: string, body?: unknown): Promise<Answer> =>
    ask(path, { method, key: API_KEY, ...(body === undefined ? {} : { body }) })
  const made = async (path: string, body: unknown): Promise<Record<string, unknown> & { id: string }> => {
    const { status, json, text } = await api('POST', path, body)
    if (status !== 201) throw new Error(`POST ${path}: ${status} ${text}`)
    return json
  }
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const backend = await made('/backends/static', { address })
  const edge = await made('/edges/https', { hostports: [`${HOST}:443`] })
  const route = await made(`/edges/https/${edge.id}/routes`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ...modules
  })
  const path = `/edges/https/${edge.id}/routes/${route.id}`
  return {
    sluice,
    server,
    api,
    made,
    edge: edge.id,
    route: route.id,
    path,
    /** Puts a module and insists that the API takes it. */
    async put(name: string, body: object): Promise<void> {
      const { status, text } = await api('PUT', `${path}/${name}`, body)
      if (status !== 200) throw new Error(`PUT ${name}: ${status} ${text}`)
    },
    async remove(name: string): Promise<void> {
      const { status, text } = await api('DELETE', `${path}/${name}`)
      if (status !== 204) throw new Error(`DELETE ${name}: ${status} ${text}`)
    },
    get: (asked: Asked = {}) => get(sluice.port, asked)
  }
}

/** One request on a connection of its own. */
function get(port: number, { path = '/', method = 'GET', headers = {}, from, signal }: Asked): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        agent: false,
        headers: { host: HOST, ...(from === undefined ? {} : { 'x-forwarded-for': from }), ...headers },
        ...(signal === undefined ? {} : { signal })
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const code = response.headers['sluice-error-code']
          const body = Buffer.concat(chunks)
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body,
            code: code as string | undefined
          })
        })
      }
    )
    sent.on('error', reject)
    sent.end()
  })
}

/** Status and code of an answer. */
export function outcome({ status, code }: Response): string {
  return code === undefined ? String(status) : `${status} ${code}`
}
