import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import t, { type Test } from 'tap'
import { SluiceProcess } from './process.js'

const FREE = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
const env = { SLUICE_API_KEY: 'a-key-of-the-administrator', SLUICE_LIMITER_BUDGET: '64MiB' }
const PORT = 4443

async function demo(t: Test, words: readonly string[] = []) {
  // Each has a folder of its own: those before still write into theirs.
  const cwd = await mkdtemp(join(tmpdir(), 'sluice-demo-'))
  t.teardown(() => rm(cwd, { recursive: true, force: true, maxRetries: 5 }))
  const sluice = new SluiceProcess(t, ['start', '--demo', ...FREE, ...words], { cwd, env })
  const listening = await sluice.logged('listening')
  return { sluice, cwd, listening }
}

/** Takes the port of the demo's agents; undefined when another process of this machine has it. */
async function takePort() {
  const server = createServer()
  const taken = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(PORT, '127.0.0.1', () => resolve(true))
  })
  return taken ? server : undefined
}

t.test(
  'the demo says where agents connect and whom they trust, and starts without when the port is taken',
  async (t) => {
    const taken = await takePort()
    const without = await demo(t)
    t.notOk('agents' in without.listening)
    await without.sluice.logged('agents cannot connect: the demo port is in use')
    t.equal((await fetch(without.listening.traffic as string)).status, 200, 'everything else works')
    const elsewhere = await demo(t, ['--agents', '127.0.0.1:0'])
    t.match(elsewhere.listening.agents, /^127\.0\.0\.1:\d+$/, 'who says where has it there')
    if (taken === undefined) {
      t.comment(`another process has port ${PORT}`)
      return
    }
    taken.close()
    await once(taken, 'close')
    const nowhere = await demo(t, ['--data', ':memory:'])
    t.notOk('agents' in nowhere.listening, 'nobody could trust an authority that is kept nowhere')
    const { cwd, listening } = await demo(t)
    const { agents, agents_ca: ca } = listening as { agents: string; agents_ca: string }
    t.equal(agents, `127.0.0.1:${PORT}`)
    t.equal(ca, join(cwd, 'data', 'agents', 'ca.pem'))
    const socket = connect({ host: '127.0.0.1', port: PORT, servername: 'localhost', ca: await readFile(ca, 'utf8') })
    await once(socket, 'secureConnect')
    socket.destroy()
  }
)

t.test('an address of agents that something else has is told in one line', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as { port: number }
  const words = ['start', ...FREE, '--data', ':memory:', '--agents', `127.0.0.1:${port}`]
  const { code, err } = await new SluiceProcess(t, words, { cwd: t.testdir(), env }).ended()
  t.equal(code, 1)
  t.match(err, new RegExp(`^agents: cannot listen on 127\\.0\\.0\\.1:${port}: EADDRINUSE; choose a free address`))
})
