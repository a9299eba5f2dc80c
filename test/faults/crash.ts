import { type Acknowledged, inOrder, misled, StormWriter, settle, startStand } from '../cli/storm.js'
import { random } from '../features/rate-limit/limiter/support/random.js'
import { startOwnPostgres } from '../store/postgres-server.js'
import { broken, type Fault, type Outcome } from './fault.js'

const ROUNDS = 3
const WRITERS = 3
/** Acknowledged writes of a round until the process is killed. */
const WRITES = 60

/** The process is killed while clients write, three times, and started again. */
export const killInWriteStorm: Fault = {
  name: 'kill -9 in a write storm on PostgreSQL',
  within: 180,
  async run(stage): Promise<Outcome> {
    const server = await startOwnPostgres(stage as never)
    const cwd = await stage.folder()
    const env = { SLUICE_STORE: await server.database() }
    const writers = Array.from({ length: WRITERS }, (_, n) => new StormWriter(`w${n}`, random(n + 1)))
    const acknowledged: Acknowledged[] = []
    const counter = { now: 0 }
    const lost: string[] = []
    let stand = await startStand(stage as never, cwd, env)
    for (let round = 1; round <= ROUNDS; round++) {
      const { process, ask } = stand
      const storms = writers.map((writer) =>
        writer.storm(ask, counter, (write) => {
          if (acknowledged.push(write) === round * WRITES) process.child.kill('SIGKILL')
        })
      )
      await Promise.all(storms)
      await process.ended()
      stand = await startStand(stage as never, cwd, env)
      lost.push(...(await settle(stand.ask, writers)), ...(await misled(stand.traffic, writers)))
    }
    return {
      clients: `${acknowledged.length} writes acknowledged in ${ROUNDS} rounds; one in flight of each writer unanswered`,
      operator: 'each start after it is an ordinary one',
      lost,
      broken: broken({ 'revisions are in the order of the answers': inOrder(acknowledged) })
    }
  }
}
