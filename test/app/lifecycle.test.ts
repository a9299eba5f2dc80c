import { pino } from 'pino'
import t from 'tap'
import { Lifecycle, type StopSteps } from '../../src/app/stop.js'

const silent = pino({ enabled: false })

/** Parts whose closing is written down. */
function parts(closed: string[]): Readonly<Record<string, StopSteps>> {
  const close = (name: string) => async () => {
    closed.push(name)
  }
  const client = () => void closed.push('client transport')
  return {
    agents: { shared: close('agents shut'), move: close('agents moved'), tunnels: close('agents closed') },
    names: { names: () => void closed.push('names') },
    api: { shared: close('api') },
    events: { shared: close('events handed over'), events: close('events stopped') },
    store: { store: close('store') },
    client: { leave: client, upstreams: client }
  }
}

/** Opens them in the order in which they are written, which is not that of their ends. */
function openAll(lifecycle: Lifecycle, all: Readonly<Record<string, StopSteps>>): void {
  for (const [name, steps] of Object.entries(all)) lifecycle.opens(name, steps)
}

t.test('a stop hands over first, ends what needs no drain after it, and runs once', async (t) => {
  const closed: string[] = []
  const lifecycle = new Lifecycle(silent, { drain: 0 })
  openAll(lifecycle, parts(closed))
  t.equal(lifecycle.phase, 'starting')
  lifecycle.ready()
  t.equal(lifecycle.phase, 'ready')
  const drained = lifecycle.stop()
  t.equal(lifecycle.phase, 'draining')
  t.equal(lifecycle.stop(), drained, 'the second stop is the first one')
  t.same(await drained, { ended: 0, cut: 0 })
  t.same(closed, [
    'agents shut',
    'api',
    'events handed over',
    'store',
    'agents closed',
    'client transport',
    'events stopped',
    'names'
  ])
})

t.test('a stop after another process has taken over lets agents go there before they are told goodbye', async (t) => {
  const closed: string[] = []
  const lifecycle = new Lifecycle(silent, { drain: 0 })
  openAll(lifecycle, parts(closed))
  lifecycle.succeeds()
  await lifecycle.stop()
  t.same(
    closed.filter((name) => /agents|client/.test(name)),
    ['client transport', 'agents shut', 'agents moved', 'agents closed', 'client transport']
  )
})

t.test('what a stage opens after the stop has begun is ended, and the stage goes no further', async (t) => {
  const closed: string[] = []
  const lifecycle = new Lifecycle(silent, { drain: 0 })
  await lifecycle.stop()
  for (const [name, steps] of Object.entries(parts(closed)))
    t.throws(() => lifecycle.opens(name, steps), { name: 'AbortError' })
  t.ok(closed.includes('agents shut') && closed.includes('api'), 'ends at once')
})

t.test('a step that fails does not keep the others from ending', async (t) => {
  const closed: string[] = []
  const lifecycle = new Lifecycle(silent, { drain: 0 })
  const close = async () => {
    throw new Error('the listener is gone')
  }
  openAll(lifecycle, { ...parts(closed), api: { shared: close } })
  await lifecycle.stop()
  t.ok(closed.includes('store') && closed.includes('names'))
})
