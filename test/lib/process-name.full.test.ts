import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { processHasEnded, processName } from '../../src/lib/process-name.js'

t.test(
  'a process has a name as long as it lives',
  { skip: process.platform === 'linux' ? false : 'Linux alone tells' },
  async (t) => {
    const own = processName() as string
    t.equal(processName(), own)
    t.equal(processHasEnded(own), false)
    const child = spawn('sleep', ['60'])
    await once(child, 'spawn')
    const [boot, space, , started] = own.split('/')
    const named = (pid: number, since = started) => [boot, space, pid, since].join('/')
    t.equal(processHasEnded(named(child.pid as number)), true, 'another process has its number')
    child.kill('SIGKILL')
    await once(child, 'exit')
    t.equal(processHasEnded(named(child.pid as number)), true)
    t.equal(processHasEnded(`another/${space}/${child.pid}/1`), false, 'nobody knows of another machine')
    t.equal(processHasEnded(''), false)
  }
)
