import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { startOwnPostgres, through } from '../store/postgres-server.js'
import { broken, comes, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

const RECOVERY = 40_000

/** The process crashes while the database is away, and is started again before that is back. */
export const startWithoutStore: Fault = {
  name: 'a start while PostgreSQL is away',
  within: 150,
  async run(stage): Promise<Outcome> {
    const server = await startOwnPostgres(stage as never)
    const line = await startCuttingProxy(stage as never, server.port)
    const data = join(await stage.folder(), 'data')
    const env = { SLUICE_STORE: through(await server.database(), line.port), SLUICE_DATA: data }
    const made = await Product.start(stage, { env })
    const site = await Site.make(made)
    const begun = Date.now()
    await site.write(made, 'before')
    // Revisions that follow each other closely share a copy, which comes a moment later.
    await comes(RECOVERY, async () => (await written(join(data, 'configuration.copy'))) > begun)
    line.cut()
    await made.kill()
    const second = await Product.tried(stage, { env })
    const { end } = second
    const served = end === undefined ? await site.serves(second).catch(({ message }: Error) => message) : 'nothing'
    const refused = end === undefined ? (await site.write(second, 'while away')).status : 0
    const told = second.log.filter(({ level }) => Number(level) >= 40).map(({ msg }) => String(msg))
    line.mend()
    const last = end === undefined ? second : await Product.start(stage, { env })
    const again = await comes(RECOVERY, async () => (await site.write(last, 'after')).status === 200)
    return {
      clients: served === 'before' ? 'served as before the crash' : `get ${served} until the database is back`,
      operator: end ?? `log: “${told[0] ?? 'nothing'}”; writes meanwhile: ${refused}`,
      lost: await site.lost(last),
      broken: broken({
        'the process starts and waits': end === undefined,
        'it serves the last configuration': served === 'before',
        'a write meanwhile is refused with 503': refused === 503,
        'the operator is told': end !== undefined || told.length > 0,
        'writes are taken when it is back': again
      })
    }
  }
}

/** When a file was written last, in milliseconds since the Unix epoch; 0: it is not there. */
async function written(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.mtimeMs ?? 0
}
