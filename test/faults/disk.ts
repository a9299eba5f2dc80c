import { join } from 'node:path'
import { SmallDisk } from '../helpers/small-disk.js'
import { broken, comes, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site, Traffic } from './site.js'

const RECOVERY = 30_000
/** Larger than what SQLite has in reserve in its file. */
const PADDING = 'x'.repeat(30_000)

/** The disk of the data folder fills up under SQLite, and is emptied again. */
export const fullDiskBelowStore: Fault = {
  name: 'full disk below SQLite (small tmpfs)',
  within: 90,
  missing: () => (process.getuid?.() === 0 ? undefined : 'SKIPPED: needs root, for a tmpfs'),
  async run(stage): Promise<Outcome> {
    const disk = SmallDisk.mount(stage, join(await stage.folder(), 'data'))
    const data = disk.folder
    const product = await Product.start(stage, { env: { SLUICE_DATA: data } })
    const site = await Site.make(product)
    await site.write(product, 'before')
    const traffic = new Traffic(stage, product)
    disk.fill()
    const refused = await site.write(product, PADDING)
    const served = await site.serves(product)
    disk.empty()
    const again = await comes(RECOVERY, async () => (await site.write(product, 'after')).status === 200)
    const clients = await traffic.stop()
    const lost = await site.lost(product)
    await product.kill()
    const next = await Product.start(stage, { env: { SLUICE_DATA: data } })
    return {
      clients,
      operator: `write: ${refused.status} “${refused.json?.msg ?? refused.text}”`,
      lost: [...lost, ...(await site.lost(next)).map((text) => `after a restart ${text}`)],
      broken: broken({
        'a write on a full disk is refused with 503': refused.status === 503,
        'the last configuration serves meanwhile': served === 'before',
        'writes are taken again': again,
        'no request fails': traffic.failed.length === 0
      })
    }
  }
}
