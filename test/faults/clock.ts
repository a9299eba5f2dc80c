import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { broken, comes, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site, Traffic } from './site.js'

/** As Debian's package `libfaketime` installs it; another place is named by the environment. */
const LIBRARY =
  process.env.LIBFAKETIME ??
  ['x86_64', 'aarch64'].map((cpu) => `/usr/lib/${cpu}-linux-gnu/faketime/libfaketime.so.1`).find(existsSync) ??
  ''
const JUMPS = ['+40d', '-40d', '+0']
const DURING = 1_500

/** The wall clock jumps forty days ahead, eighty back, and home. */
export const clockJumps: Fault = {
  name: 'the wall clock jumps by 40 days',
  within: 90,
  missing: () => (existsSync(LIBRARY) ? undefined : "SKIPPED: needs Debian's package libfaketime"),
  async run(stage): Promise<Outcome> {
    const file = join(await stage.folder(), 'time')
    writeFileSync(file, '+0')
    const product = await Product.start(stage, {
      env: {
        LD_PRELOAD: LIBRARY,
        FAKETIME_TIMESTAMP_FILE: file,
        FAKETIME_NO_CACHE: '1',
        FAKETIME_DONT_FAKE_MONOTONIC: '1'
      }
    })
    const site = await Site.make(product)
    const traffic = new Traffic(stage, product)
    const days: number[] = []
    const refused: string[] = []
    for (const jump of JUMPS) {
      writeFileSync(file, jump)
      await new Promise((resolve) => setTimeout(resolve, DURING))
      const answer = await site.write(product, `at ${jump}`)
      if (answer.status !== 200) refused.push(`${jump}: ${answer.status} ${answer.text}`)
      const shown = Date.parse(String(answer.headers.date))
      days.push(Math.round((shown - Date.now()) / 86_400_000))
    }
    const followed = await comes(5_000, async () => (await site.serves(product)) === site.acknowledged)
    return {
      clients: await traffic.stop(),
      operator: `answers of the API ${days.map((day) => `${day} d`).join(', ')} from now; writes ${refused.join(', ') || 'taken'}`,
      lost: await site.lost(product),
      broken: broken({
        'the clock of the process did jump': days[0] === 40 && days[1] === -40,
        'writes are taken at each time': refused.length === 0,
        'a write serves': followed,
        'no request fails': traffic.failed.length === 0
      })
    }
  }
}
