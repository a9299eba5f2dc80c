import t from 'tap'
import { account } from '../helpers/account.js'
import { engines } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { clientWays, PipeStand, pipeKinds, upstreamWays } from './pipe-stand.js'

/** Pipes of each kind, at once, that end in each way, and how often. */
const AT_ONCE = 4
const ROUNDS = 5

for (const engine of engines)
  t.test(`${engine}: a soak with every kind of end returns to the descriptors that it began with`, async (t) => {
    const options = { TIMEOUTS_IDLE: '10m', TIMEOUTS_HALF_CLOSED: '300ms', LIMITS_CONNECTIONS: '400' }
    const stand = await PipeStand.start(t, { engine, options })
    const before = stand.descriptors
    let pipes = 0
    for (let round = 0; round < ROUNDS; round++)
      for (const upstream of upstreamWays)
        for (const client of clientWays) {
          // A client that stays is left to an upstream that ends by itself.
          if (client === 'stay' && !upstream.endsWith('first')) continue
          stand.way = upstream
          const together = pipeKinds.flatMap((kind) => Array.from({ length: AT_ONCE }, () => kind))
          await Promise.all(together.map((kind) => stand.leave(kind, client)))
          pipes += together.length
          // What clients and upstream keep open for ever is theirs; only so many of it fits.
          if (pipes % 200 === 0) stand.clear()
        }
    await until(() => stand.descriptors <= before)
    await until(async () => /^sluice_connections 0$/m.test((await account(stand.sluice)('/metrics')).text))
    t.pass(`${pipes} pipes`)
  })
