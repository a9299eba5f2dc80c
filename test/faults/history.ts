import pg from 'pg'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { startOwnPostgres, through } from '../store/postgres-server.js'
import { broken, comes, type Fault, type Outcome, seconds } from './fault.js'
import { Product } from './product.js'
import { Site, Traffic } from './site.js'

const RECOVERY = 40_000

/** An old copy of the database takes the place of the one that two processes have followed. */
export const storeBackInTime: Fault = {
  name: 'PostgreSQL goes back in time',
  within: 150,
  async run(stage): Promise<Outcome> {
    const server = await startOwnPostgres(stage as never)
    const url = await server.database()
    const name = new URL(url).pathname.slice(1)
    const line = await startCuttingProxy(stage as never, server.port)
    const env = { SLUICE_STORE: through(url, line.port), SLUICE_SEAL_KEY: Buffer.alloc(32, 's').toString('base64') }
    const maker = await Product.start(stage, { env })
    const site = await Site.make(maker)
    await site.write(maker, 'old')
    await maker.stop()
    const admin = new pg.Client({ connectionString: url.replace(/\/[^/]*$/, '/postgres') })
    await admin.connect()
    stage.teardown(() => admin.end())
    await admin.query(`create database copy template ${name}`)

    const first = await Product.start(stage, { env })
    const second = await Product.start(stage, { env })
    const both = [first, second]
    for (let i = 1; i <= 5; i++) await site.write(first, `new ${i}`)
    await comes(RECOVERY, async () => (await site.serves(second)) === 'new 5')
    const traffic = both.map((product) => new Traffic(stage, product))
    line.cut()
    await comes(10_000, () =>
      admin.query(`alter database ${name} rename to gone; alter database copy rename to ${name}`).then(() => true)
    )
    line.mend()
    const begun = performance.now()
    const written = await comes(RECOVERY, async () => (await site.write(first, 'after')).status === 200)
    const follows = await comes(RECOVERY, async () => (await site.serves(second)) === 'after')
    const lasted = performance.now() - begun
    const told = await Promise.all(both.map((product) => product.told('went back in time')))
    const clients = await Promise.all(traffic.map((one) => one.stop()))
    return {
      clients: `${clients.join('; ')}; both serve the store's truth after ${seconds(lasted)}`,
      operator: told[0] ?? 'nothing',
      lost: (await Promise.all(both.map((product) => site.lost(product)))).flat(),
      broken: broken({
        'a write is taken': written,
        'the other process follows it': follows,
        'both processes say it': told.every((line) => line !== undefined),
        'no request fails': traffic.every(({ failed }) => failed.length === 0)
      })
    }
  }
}
