import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { asker } from '../../../api/asking.js'
import { SluiceProcess } from '../../../cli/process.js'
import { freePort } from '../../../proxy/free-port.js'
import { RawAgent } from '../raw-agent.js'

const COUNT = 1_000
const MOST_KIB = 100
const KEY = 'a-key-for-tests-0123456789'
const skip = process.env.SLUICE_TEST_LONG === '1' ? false : 'a measurement of the long suite'

t.test(`${COUNT} agents that do nothing cost at most ${MOST_KIB} KiB each`, { skip }, async (t) => {
  const data = t.testdir()
  const [traffic, api, port] = [await freePort(), await freePort(), await freePort()]
  const words = ['start', '--listen', `127.0.0.1:${traffic}`, '--api', `127.0.0.1:${api}`]
  const sluice = new SluiceProcess(t, [...words, '--agents', `127.0.0.1:${port}`, '--data', data], {
    cwd: data,
    env: { SLUICE_API_KEY: KEY, SLUICE_LIMITER_BUDGET: '64MiB' }
  })
  await sluice.logged('listening')
  const { token } = (await asker('127.0.0.1', api)('/credentials', { method: 'POST', body: {}, key: KEY })).json
  const ca = await readFile(join(data, 'agents', 'ca.pem'), 'utf8')
  const agents: RawAgent[] = []
  t.teardown(() => {
    for (const { socket } of agents) socket.destroy()
  })
  const more = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const extra = { HeartbeatInterval: 200e9, HeartbeatTolerance: 100e9 }
      const agent = await RawAgent.session({ port, ca }, token, extra)
      await agent.call(7, { Labels: { number: String(agents.length) } })
      agents.push(agent)
    }
    await wait(2_000)
    return residentKib(sluice)
  }
  // What the first ones bring into memory is not the price of one.
  const before = await more(100)
  const each = ((await more(COUNT)) - before) / COUNT
  t.ok(each <= MOST_KIB, `${each.toFixed(1)} KiB`)
})

async function residentKib({ child }: SluiceProcess): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1])
}
