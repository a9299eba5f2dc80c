import { request } from 'node:http'
import { type Asked, asker } from '../api/asking.js'
import { API_KEY, type RunningSluice } from './sluice.js'

/** Calls of the management API of a running product, with its key. */
export function account(sluice: RunningSluice) {
  const ask = asker('127.0.0.1', sluice.apiPort)
  return (path: string, asked: Asked = {}) => ask(path, { key: API_KEY, ...asked })
}

/** Creates a record and answers it. Throws when the API refuses. */
export async function create(
  sluice: RunningSluice,
  path: string,
  body: Readonly<Record<string, unknown>>
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at member by member.
): Promise<any> {
  const answer = await account(sluice)(path, { method: 'POST', body })
  if (answer.status !== 201) throw new Error(`POST ${path} gave ${answer.status}: ${answer.text}`)
  return answer.json
}

/** An edge for `host` with one route for every path; answers the path of the route. */
export async function site(
  sluice: RunningSluice,
  host: string,
  route: Readonly<Record<string, unknown>>
): Promise<{ readonly edge: string; readonly route: string }> {
  const edge = await create(sluice, '/edges/https', { hostports: [`${host}:443`] })
  const made = await create(sluice, `/edges/https/${edge.id}/routes`, { match: '/', ...route })
  return { edge: `/edges/https/${edge.id}`, route: `/edges/https/${edge.id}/routes/${made.id}` }
}

export interface Seen {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

/** One request on the traffic port, on a connection of its own. */
export function visit(
  sluice: RunningSluice,
  host: string,
  {
    path = '/',
    method = 'GET',
    headers = {},
    body = ''
  }: {
    readonly path?: string
    readonly method?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  } = {}
): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const options = { port: sluice.port, host: '127.0.0.1', path, method, headers: { host, ...headers }, agent: false }
    const sent = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString('utf8')
        })
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
