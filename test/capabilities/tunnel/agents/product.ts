import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { account, create } from '../../../helpers/account.js'
import { type RunningSluice, type SluiceSetup, startSluice } from '../../../helpers/sluice.js'
import { until } from '../../../helpers/until.js'
import type { AgentPlace } from '../agent-suite.js'

interface Credential {
  readonly id: string
  readonly token: string
}

/** The product with an agent listener. */
export interface Product {
  readonly sluice: RunningSluice
  readonly agents: AgentPlace
  credential(body?: Readonly<Record<string, unknown>>): Promise<Credential>
  /** A backend that selects tunnels by labels, and a route for `host` that leads there; answers the backend's id. */
  site(
    host: string,
    labels: Readonly<Record<string, string>>,
    route?: Readonly<Record<string, unknown>>
  ): Promise<string>
  /** Asks until the answer satisfies `done`: what other connections cause comes a moment later. */
  until(path: string, done: (json: { readonly [key: string]: unknown }) => boolean): Promise<void>
}

export async function startProduct(t: Test, setup: SluiceSetup = {}): Promise<Product> {
  const data = t.testdir()
  const options = { AGENTS: '127.0.0.1:0', DATA: data, STORE: ':memory:', ...setup.options }
  const sluice = await startSluice(t, { ...setup, options })
  const { port } = await sluice.line(({ msg }) => msg === 'agents may connect')
  const ca = await readFile(join(data, 'agents', 'ca.pem'), 'utf8')
  return {
    sluice,
    agents: { port: Number(port), address: `localhost:${port}`, ca },
    credential: (body = {}) => create(sluice, '/credentials', body),
    async site(host, labels, route = {}) {
      const backend = await create(sluice, '/backends/tunnel_group', { labels })
      const edge = await create(sluice, '/edges/https', { hostports: [`${host}:443`] })
      const module = { backend: { backend_id: backend.id } }
      await create(sluice, `/edges/https/${edge.id}/routes`, {
        match: '/',
        match_type: 'path_prefix',
        ...module,
        ...route
      })
      return backend.id
    },
    async until(path, done) {
      await until(async () => done((await account(sluice)(path)).json))
    }
  }
}
