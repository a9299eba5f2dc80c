import t from 'tap'
import { ProcessCalls } from '../../src/control/cluster/remote-calls.js'
import type { ClusterBoard } from '../../src/store/board.js'
import { ManualClock } from '../helpers/clock.js'
import { until } from '../helpers/until.js'
import { Lines, opened, type Test } from '../store/opened.js'

/** Two processes on one store, each of which answers what it is asked with its own name. */
async function stand(t: Test, serve?: (body: string) => Promise<string>) {
  const { store } = await opened(t, ':memory:')
  const { board } = store
  const clock = new ManualClock()
  const log = new Lines()
  const one = new ProcessCalls({ board, process: 'one', clock, log, serve: async (body) => `"one ${body}"` })
  const asked: string[] = []
  const two = new ProcessCalls({
    board,
    process: 'two',
    clock,
    log,
    serve: async (body) => {
      asked.push(body)
      return serve === undefined ? `"two ${body}"` : await serve(body)
    }
  })
  const report = (id: string) => store.reportProcess({ id, appliedRevision: 1, lastError: null, divergedAt: null })
  await report('one')
  await report('two')
  return { store, board, clock, log, one, two, asked, report }
}

async function left(board: ClusterBoard, process: string): Promise<number> {
  return (await board.waiting(process)).length
}

t.test('a process asks another and gets its answer; each call is served once', async (t) => {
  const { board, one, two, asked } = await stand(t)
  t.equal(await one.ask('two', '1'), '"two 1"')
  t.equal(await two.ask('one', '2'), '"one 2"')
  const many = await Promise.all(Array.from({ length: 50 }, (_, index) => one.ask('two', String(index))))
  t.same(
    many,
    many.map((_, index) => `"two ${index}"`)
  )
  t.equal(asked.length, 51)
  t.equal(await left(board, 'two'), 0)
})

t.test('a call whose notification was lost is found with the next report', async (t) => {
  const { board, clock, log, report } = await stand(t)
  const nobodyHears = new Proxy(board, {
    get: (target, name) => {
      const value = Reflect.get(target, name) as unknown
      return name === 'listen' ? () => () => undefined : typeof value === 'function' ? value.bind(target) : value
    }
  })
  const serve = async (body: string) => `"deaf ${body}"`
  const deaf = new ProcessCalls({ board: nobodyHears, process: 'deaf', clock, log, serve })
  deaf.reported(await report('deaf'))
  t.ok(await board.call({ id: 'c1', process: 'deaf', from: 'one', body: '7' }))
  t.equal(await board.answerTo('c1'), null)
  deaf.reported(await report('deaf'))
  await until(async () => (await board.answerTo('c1')) === '"deaf 7"')
  await deaf.stop()
})

t.test('who is gone or silent is told so, and nothing stays behind', async (t) => {
  let release: () => void = () => undefined
  const held = new Promise<string>((resolve) => {
    release = () => resolve('"late"')
  })
  const { store, board, clock, one, two } = await stand(t, () => held)
  await t.rejects(one.ask('three', '1'), { code: 'UNAVAILABLE', message: /is gone/ })
  const silent = one.ask('two', '1')
  await until(async () => (await left(board, 'two')) === 1)
  clock.advance(10_000)
  await t.rejects(silent, { code: 'UNAVAILABLE', message: /does not answer/ })
  t.equal(await left(board, 'two'), 0, 'the call is withdrawn')
  const dying = one.ask('two', '2')
  await until(async () => (await left(board, 'two')) === 1)
  await store.forgetProcesses(await store.processes())
  await t.rejects(dying, { code: 'UNAVAILABLE', message: /is gone/ })
  release()
  await two.stop()
})

t.test('a failure is no answer, and a process that stops waits for nobody', async (t) => {
  const { board, one, log } = await stand(t, async () => {
    throw new Error('broken')
  })
  const waiting = one.ask('two', '1')
  await until(async () => log.texts.some((text) => text.includes('was not done')))
  await one.stop()
  await t.rejects(waiting, { code: 'UNAVAILABLE' })
  t.equal(await left(board, 'two'), 0)
})
