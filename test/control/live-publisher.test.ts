import t from 'tap'
import {
  type LiveChange,
  type LiveSession,
  type LiveSources,
  type LiveTunnel,
  noLiveSources
} from '../../src/control/cluster/live-sources.js'
import { LivePublisher } from '../../src/control/cluster/publisher.js'
import { newId } from '../../src/lib/id.js'
import type { ClusterBoard } from '../../src/store/board.js'
import { StoreError } from '../../src/store/errors.js'
import { random as seeded } from '../features/rate-limit/limiter/support/random.js'
import { until } from '../helpers/until.js'
import { Lines, opened, type Test } from '../store/opened.js'

const PROCESS = 'proc_here'
const ALL = { except: [] }

/** Agents that come and go as a test says. */
class Agents implements LiveSources {
  readonly sessions = new Map<string, LiveSession>()
  readonly open = new Map<string, LiveTunnel>()
  readonly backendsOf = noLiveSources.backendsOf
  readonly command = noLiveSources.command
  changed: LiveChange = () => undefined
  #at = Date.UTC(2026, 0, 1)

  tunnelSessions = () => this.sessions.values()
  tunnels = () => this.open.values()

  watch(changed: LiveChange): void {
    this.changed = changed
  }

  /** A new one, or one that comes again. */
  session(id = newId('ts', this.#at)): string {
    this.#at += 1000
    const about = { agentVersion: '1', credential: 'cr_1', ip: '192.0.2.1', metadata: '\0', os: 'linux' }
    this.sessions.set(id, { id, startedAt: this.#at, ...about, region: 'global', transport: 'ngrok/2' })
    this.changed('session', id)
    return id
  }

  tunnel(session: string, publicUrl: string, id = newId('tn', this.#at)): string {
    this.#at += 1000
    const about = { session, publicUrl, proto: publicUrl === '' ? '' : 'https', region: 'global', metadata: '' }
    const labels = publicUrl === '' ? { app: 'web' } : ({} as Record<string, string>)
    this.open.set(id, { id, startedAt: this.#at, ...about, labels, forwardsTo: 'x' })
    this.changed('tunnel', id)
    return id
  }

  end(id: string): void {
    if (this.sessions.delete(id)) this.changed('session', id)
    if (this.open.delete(id)) this.changed('tunnel', id)
  }
}

async function stand(t: Test, wrap: (board: ClusterBoard) => ClusterBoard = (board) => board) {
  const { store } = await opened(t, ':memory:')
  const { board } = store
  const agents = new Agents()
  const log = new Lines()
  const publisher = new LivePublisher({ board: wrap(board), process: PROCESS, sources: agents, log })
  const report = async () =>
    publisher.reported(
      await store.reportProcess({ id: PROCESS, appliedRevision: 1, lastError: null, divergedAt: null })
    )
  const shown = async (kind: string) =>
    (await board.list(kind, { limit: 9999 }, ALL)).map(({ body }) => JSON.parse(body))
  /** What the board says is what there is. */
  const same = async () => {
    const urls = [...agents.open.values()].filter(({ publicUrl }) => publicUrl !== '')
    const newest = (a: { id: string }, b: { id: string }) => (a.id < b.id ? 1 : -1)
    const last = (a: { startedAt: number }, b: { startedAt: number }) => b.startedAt - a.startedAt
    const wanted = [[...agents.sessions.values()].sort(newest), [...agents.open.values()].sort(newest), urls.sort(last)]
    return (
      JSON.stringify([await shown('session'), await shown('tunnel'), await shown('endpoint')]) ===
      JSON.stringify(wanted)
    )
  }
  return { store, agents, publisher, report, shown, same, log }
}

t.test('nothing is written before the process has reported, then everything', async (t) => {
  const { agents, report, shown, same } = await stand(t)
  const session = agents.session()
  agents.tunnel(session, '')
  agents.tunnel(session, 'https://a.test')
  t.same(await shown('session'), [])
  await report()
  await until(same)
  t.match(await shown('session'), [{ id: session, metadata: '\0' }])
})

t.test('while nothing changes nothing is written', async (t) => {
  let writes = 0
  const counting = (board: ClusterBoard): ClusterBoard => ({
    ...bound(board),
    publish: async (...change) => {
      writes++
      await board.publish(...change)
    }
  })
  const { agents, report, same } = await stand(t, counting)
  for (let n = 0; n < 300; n++) agents.tunnel(agents.session(), '')
  await report()
  await until(same)
  t.equal(writes, 1, 'six hundred changes at once are one write')
  for (let n = 0; n < 20; n++) await report()
  agents.session()
  await until(same)
  t.equal(writes, 2)
})

t.test('what the store has forgotten comes back whole', async (t) => {
  const { store, agents, report, same, shown } = await stand(t)
  agents.tunnel(agents.session(), 'https://a.test')
  await report()
  await until(same)
  await store.forgetProcesses(await store.processes())
  t.same(await shown('tunnel'), [])
  await report()
  await until(same)
})

t.test('it ends with nothing on the board', async (t) => {
  const { agents, publisher, report, same, shown } = await stand(t)
  agents.session()
  await report()
  await until(same)
  await publisher.stop()
  t.same(await shown('session'), [])
  agents.session()
  await report()
  t.same(await shown('session'), [])
})

t.test(
  'whatever comes and goes, and however often the store fails, the board shows what there is in the end',
  async (t) => {
    for (let round = 0; round < 8; round++) {
      let fails = true
      let attempts = 0
      const random = seeded(round + 1)
      const failing = (board: ClusterBoard): ClusterBoard => ({
        ...bound(board),
        publish: async (...change) => {
          attempts++
          // Before it is done, or after: the answer alone is lost.
          if (fails && random() < 0.3) throw new StoreError('STORE_UNAVAILABLE', 'out of reach')
          await board.publish(...change)
          if (fails && random() < 0.3) throw new StoreError('STORE_UNAVAILABLE', 'out of reach')
        }
      })
      const { store, agents, report, same, log } = await stand(t, failing)
      const known: string[] = []
      for (let step = 0; step < 400; step++) {
        const some = known[Math.floor(random() * known.length)]
        const what = random()
        if (what < 0.3 || some === undefined) known.push(agents.session())
        else if (what < 0.5) known.push(agents.tunnel(some, random() < 0.5 ? '' : 'https://a.test'))
        else if (what < 0.6 && some.startsWith('ts_')) agents.session(some)
        else if (what < 0.7 && some.startsWith('tn_'))
          agents.tunnel('ts_x', agents.open.get(some)?.publicUrl ?? '', some)
        else if (what < 0.95) agents.end(some)
        else if (what < 0.96) await store.forgetProcesses(await store.processes())
        if (step % 50 > 0) continue
        agents.session()
        const before = attempts
        await until(async () => {
          await report()
          return attempts > before
        })
      }
      fails = false
      // As each second does: one report may come while a write is failing.
      await until(async () => {
        await report()
        return await same()
      })
      t.ok(
        await same(),
        `seed ${round + 1}: ${agents.sessions.size} sessions, ${agents.open.size} tunnels, ${log.texts.length} failures`
      )
    }
  }
)

/** The methods of a board as an object of their own. */
function bound(board: ClusterBoard): ClusterBoard {
  return {
    publish: (...all) => board.publish(...all),
    clear: (...all) => board.clear(...all),
    list: (...all) => board.list(...all),
    get: (...all) => board.get(...all),
    call: (...all) => board.call(...all),
    waiting: (...all) => board.waiting(...all),
    answer: (...all) => board.answer(...all),
    answerTo: (...all) => board.answerTo(...all),
    withdraw: (...all) => board.withdraw(...all),
    listen: (...all) => board.listen(...all)
  }
}
