import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../src/lib/errors.js'
import { parseSealKey, Sealer } from '../../src/lib/seal.js'
import { readCopy } from '../../src/store/copy/copy-file.js'
import { type Answer, asker } from '../api/asking.js'
import { until } from '../helpers/until.js'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { folder, type Test } from '../store/opened.js'
import { type PostgresDatabases, through } from '../store/postgres-server.js'
import { SluiceProcess } from './process.js'

const KEY = 'a-key-of-the-administrator'
const HOST = 'shop.test'

/** A policy that answers `marker`. */
function answering(marker: string): string {
  const config = { status_code: 200, body: marker }
  return JSON.stringify({ on_http_request: [{ actions: [{ type: 'custom-response', config }] }] })
}

/** A process of the product, asked as its operator asks it. */
export class CopyStand {
  readonly process: SluiceProcess
  readonly #traffic: ReturnType<typeof asker>
  readonly #api: ReturnType<typeof asker>

  private constructor(process: SluiceProcess, traffic: URL, api: URL) {
    this.process = process
    this.#traffic = asker(traffic.hostname, Number(traffic.port))
    this.#api = asker(api.hostname, Number(api.port))
  }

  /** A process that may never listen. */
  static launch(t: Test, cwd: string, env: Record<string, string>, words: readonly string[] = []): SluiceProcess {
    const fixed = { SLUICE_API_KEY: KEY, SLUICE_LIMITER_BUDGET: '64MiB', SLUICE_ACCESS_LOG: 'off' }
    const free = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
    const all = { ...fixed, SLUICE_DATA: join(cwd, 'data'), ...env }
    return new SluiceProcess(t as never, ['start', ...free, ...words], { cwd, env: all })
  }

  static async start(t: Test, cwd: string, env: Record<string, string>, words?: readonly string[]): Promise<CopyStand> {
    return await CopyStand.listening(CopyStand.launch(t, cwd, env, words))
  }

  static async listening(process: SluiceProcess): Promise<CopyStand> {
    const { traffic, api } = (await process.logged('listening')) as { traffic: string; api: string }
    return new CopyStand(process, new URL(traffic), new URL(api))
  }

  async ask(path: string, method = 'GET', body?: object, key = KEY): Promise<Answer> {
    return await this.#api(path, { method, key, ...(body === undefined ? {} : { body }) })
  }

  /** An edge whose only route answers `marker`; resolves with the path of the route. */
  async site(marker: string): Promise<string> {
    const { json: edge } = await this.ask('/edges/https', 'POST', { hostports: [`${HOST}:443`] })
    const routes = `/edges/https/${edge.id}/routes`
    const body = { match: '/', traffic_policy: { value: answering(marker) } }
    return `${routes}/${(await this.ask(routes, 'POST', body)).json.id}`
  }

  async change(route: string, marker: string): Promise<Answer> {
    return await this.ask(route, 'PATCH', { traffic_policy: { value: answering(marker) } })
  }

  /** What traffic meets. */
  async serves(): Promise<string> {
    return (await this.#traffic('/', { headers: { host: HOST } })).text
  }

  async health(): Promise<string> {
    return (await this.ask('/healthz')).json.status
  }

  async revision(): Promise<number> {
    const { processes } = (await this.ask('/processes')).json as {
      processes: { readonly self: boolean; readonly applied_revision: number }[]
    }
    return processes.find(({ self }) => self)?.applied_revision ?? -1
  }

  async kill(): Promise<void> {
    this.process.child.kill('SIGKILL')
    await this.process.ended()
  }

  async stop(): Promise<number | null> {
    this.process.child.kill('SIGTERM')
    return (await this.process.ended()).code
  }
}

/** Waits until the copy in `data` is that of this revision. */
export async function copied(data: string, store: string, revision: number): Promise<void> {
  const path = join(data, 'configuration.copy')
  const seal = new Sealer(parseSealKey(readFileSync(join(data, 'seal.key'), 'utf8')))
  await until(async () => {
    try {
      for await (const part of readCopy({ path, store, seal })) {
        if ('end' in part) return part.end.place.revision === revision
      }
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
    }
    return false
  })
}

/** A site that was written to PostgreSQL through a proxy and copied, and whose process has crashed. */
export async function crashed(t: Test, server: PostgresDatabases) {
  const url = await server.database()
  const proxy = await startCuttingProxy(t as never, server.port)
  const cwd = await folder(t)
  const env = { SLUICE_STORE: through(url, proxy.port) }
  const first = await CopyStand.start(t, cwd, env)
  const route = await first.site('first')
  const { json: key } = await first.ask('/api_keys', 'POST', {})
  const name = `postgres://127.0.0.1:${proxy.port}${new URL(url).pathname}`
  await copied(join(cwd, 'data'), name, await first.revision())
  await first.kill()
  return { url, name, proxy, cwd, env, route, token: key.token as string }
}
