import { readFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { create } from '../../../helpers/account.js'
import { type SluiceSetup, startSluice } from '../../../helpers/sluice.js'
import { freePort } from '../../../proxy/free-port.js'
import { answerOf, body } from '../agent-suite.js'

export const HOST = 'app.example.com'
export const LABELS = { app: 'web' }

/** The product with one port for agents and visitors, a credential, and a site behind a tunnel. */
export async function startShared(t: Test, setup: SluiceSetup = {}) {
  const port = await freePort()
  const at = `127.0.0.1:${port}`
  const data = t.testdir()
  const sluice = await startSluice(t, {
    ...setup,
    options: {
      AGENTS: at,
      LISTENERS: `https://${at}`,
      DATA: data,
      STORE: ':memory:',
      ...setup.options
    }
  })
  const ca = await readFile(join(data, 'agents', 'ca.pem'), 'utf8')
  const backend = await create(sluice, '/backends/tunnel_group', { labels: LABELS })
  const edge = await create(sluice, '/edges/https', { hostports: [`${HOST}:443`] })
  const route = { match: '/', match_type: 'path_prefix', backend: { backend_id: backend.id } }
  await create(sluice, `/edges/https/${edge.id}/routes`, route)
  const { token } = await create(sluice, '/credentials', {})
  return { sluice, port, token: String(token), agents: { port, address: `localhost:${port}`, ca } }
}

/** A request over TLS as a client makes it that offers no protocol, or those in `alpn`. */
export async function visitTls(
  port: number,
  servername: string | undefined,
  { host = HOST, path = '/', alpn }: { host?: string; path?: string; alpn?: string[] } = {}
) {
  const sending = request({
    host: '127.0.0.1',
    port,
    path,
    headers: { host },
    rejectUnauthorized: false,
    createConnection: () => secured(port, servername, alpn)
  })
  sending.end()
  const answer = await answerOf(sending)
  return { status: answer.statusCode, body: await body(answer) }
}

/** A TLS connection to the port, whatever certificate it shows. */
export function secured(port: number, servername: string | undefined, alpn: string[] | undefined): TLSSocket {
  return connect({
    host: '127.0.0.1',
    port,
    rejectUnauthorized: false,
    ...(servername === undefined ? {} : { servername }),
    ...(alpn === undefined ? {} : { ALPNProtocols: alpn })
  })
}
