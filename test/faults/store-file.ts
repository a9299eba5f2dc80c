import { copyFile, readFile, rename, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { broken, comes, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site, Traffic } from './site.js'

const TOLD = 15_000

/** The file of the store is moved away under a process that runs, and is empty at the next start. */
export const goneStoreFile: Fault = {
  name: 'the file of the store is moved away, then emptied',
  within: 120,
  async run(stage): Promise<Outcome> {
    const env = { SLUICE_DATA: join(await stage.folder(), 'data') }
    const first = await Product.start(stage, { env })
    const [store, kept, copy] = ['sluice.db', 'kept.db', 'configuration.copy'].map((name) =>
      join(first.data, name)
    ) as [string, string, string]
    const site = await Site.make(first)
    await site.write(first, 'kept')
    const traffic = new Traffic(stage, first)
    await rename(store, kept)
    const refused = await site.write(first, 'into nothing')
    const read = await first.ask('/edges/https')
    const told = await comes(TOLD, async () => (await first.ask('/readyz')).json.reasons?.includes('store_failing'))
    await rename(kept, store)
    const clients = await traffic.stop()
    await first.stop()

    const second = await Product.start(stage, { env })
    const lost = await site.lost(second)
    await comes(TOLD, async () => (await readFile(copy)).length > 0)
    await second.stop()
    const before = await readFile(copy)
    await copyFile(store, kept)
    await truncate(store)
    const empty = await Product.tried(stage, { env })
    const { end } = empty
    await empty.kill()
    const same = before.equals(await readFile(copy))
    for (const name of ['-wal', '-shm']) await rm(`${store}${name}`, { force: true })
    await rename(kept, store)
    const third = await Product.start(stage, { env })
    return {
      clients,
      operator: `${refused.status}: “${String(refused.json?.msg)}”; ${end ?? 'the start on an empty file was not refused'}`,
      lost: [...lost, ...(await site.lost(third))],
      broken: broken({
        'a write into the file that has gone is refused': refused.status === 503,
        'a read is refused': read.status === 503,
        '/readyz says store_failing': told,
        'no request fails': traffic.failed.length === 0,
        'an empty store is refused': end !== undefined && /is empty/.test(end),
        'the copy stays': same
      })
    }
  }
}
