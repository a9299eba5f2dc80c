import { readFile } from 'node:fs/promises'
import pg from 'pg'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { type PostgresServer, startOwnPostgres, through } from '../store/postgres-server.js'
import { broken, comes, type Fault, type Outcome, type Stage, seconds } from './fault.js'
import { Product } from './product.js'
import { Site, Traffic } from './site.js'

/** How long it may take until writes are taken again, in milliseconds. */
const RECOVERY = 40_000
const DURING = 2_000

interface Away {
  /** The address that the product gets. */
  readonly url: string
  readonly leave: () => unknown
  readonly return: () => unknown
}

/** Runs traffic and writes while the database is away, and looks at what is there when it is back. */
async function away(stage: Stage, make: (server: PostgresServer) => Promise<Away>): Promise<Outcome> {
  const database = await make(await startOwnPostgres(stage as never))
  const product = await Product.start(stage, { env: { SLUICE_STORE: database.url } })
  const site = await Site.make(product)
  const traffic = new Traffic(stage, product)
  const before = await site.write(product, 'before')
  await database.leave()
  const begun = performance.now()
  const refused = await site.write(product, 'while away')
  const refusal = performance.now() - begun
  const alive = (await product.ask('/healthz')).status === 200
  await new Promise((resolve) => setTimeout(resolve, DURING))
  const served = await site.serves(product)
  await database.return()
  const returned = performance.now()
  const again = await comes(RECOVERY, async () => (await site.write(product, 'after')).status === 200)
  const recovery = performance.now() - returned
  const reason = refused.json?.msg ?? refused.text
  return {
    clients: await traffic.stop(),
    operator: `write: ${refused.status} after ${seconds(refusal)} “${reason}”; writes again ${seconds(recovery)} after`,
    lost: await site.lost(product),
    broken: broken({
      'a write before is taken': before.status === 200,
      'a write meanwhile is refused with 503': refused.status === 503,
      '/healthz answers meanwhile': alive,
      'the last configuration serves meanwhile': served === 'before' || served === 'while away',
      'writes are taken again': again,
      'no request fails': traffic.failed.length === 0
    })
  }
}

export const stoppedDatabase: Fault = {
  name: 'PostgreSQL stopped and started',
  within: 120,
  run: (stage) =>
    away(stage, async (server) => ({
      url: await server.database(),
      leave: () => server.stop(),
      return: () => server.start()
    }))
}

export const pausedDatabase: Fault = {
  name: 'PostgreSQL paused (SIGSTOP)',
  within: 120,
  run: (stage) =>
    away(stage, async (server) => {
      const url = await server.database()
      let stopped: number[] = []
      const resume = () => {
        for (const pid of stopped.splice(0)) process.kill(pid, 'SIGCONT')
      }
      stage.teardown(resume)
      return {
        url,
        async leave() {
          stopped = await processes(url)
          for (const pid of stopped) process.kill(pid, 'SIGSTOP')
        },
        return: resume
      }
    })
}

export const blackHole: Fault = {
  name: 'packets to PostgreSQL vanish',
  within: 120,
  run: (stage) =>
    away(stage, async (server) => {
      const line = await startCuttingProxy(stage as never, server.port)
      return {
        url: through(await server.database(), line.port),
        leave: () => {
          line.silent = true
        },
        return: () => {
          line.silent = false
          line.cut()
          line.mend()
        }
      }
    })
}

/** The server and its children, as the kernel knows them. */
async function processes(url: string): Promise<number[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const status = await readFile(`/proc/${rows[0].pid}/status`, 'utf8')
  await client.end()
  const server = Number(/^PPid:\s+(\d+)/m.exec(status)?.[1])
  const children = await readFile(`/proc/${server}/task/${server}/children`, 'utf8')
  return [server, ...children.trim().split(' ').map(Number)]
}
