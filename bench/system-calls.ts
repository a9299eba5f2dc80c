import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { children } from './process.js'
import { table } from './table.js'

/** Calls that move bytes, by what they do. */
const READS = ['read', 'recvfrom', 'recvmsg', 'readv', 'pread64', 'splice', 'tee']
const WRITES = ['write', 'sendto', 'sendmsg', 'writev', 'sendfile']

interface Traced {
  readonly name: string
  readonly pid: number
  /** Puts load on the program; returns megabytes of bodies, and requests. */
  run(): Promise<{ readonly megabytes: number; readonly requests: number }>
}

/** Counts system calls of each program under load (`strace -c -f`), which is much slower meanwhile: only the counts say something. */
export async function systemCalls(programs: readonly Traced[]): Promise<void> {
  const rows: string[][] = []
  for (const { name, pid, run } of programs) {
    // Threads are followed; processes that run already are not.
    const pids = [pid, ...children(pid)].flatMap((one) => ['-p', String(one)])
    const strace = spawn('strace', ['-c', '-f', ...pids], { stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    strace.stderr.on('data', (chunk) => {
      said += chunk
    })
    const ended = once(strace, 'close')
    await new Promise((resolve) => setTimeout(resolve, 300))
    const { megabytes, requests } = await run()
    strace.kill('SIGINT')
    await ended
    const calls = new Map<string, number>()
    for (const [, count, call] of said.matchAll(/^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$/gm)) {
      if (call !== 'total') calls.set(call as string, Number(count))
    }
    const sum = (names: readonly string[]) => names.reduce((all, one) => all + (calls.get(one) ?? 0), 0)
    const all = [...calls.values()].reduce((one, other) => one + other, 0)
    const [reads, writes, waits] = [sum(READS), sum(WRITES), sum(['epoll_wait', 'epoll_pwait'])]
    const counts = [reads, writes, waits, all - reads - writes - waits]
    rows.push([name, String(requests), ...counts.map((count) => (count / megabytes).toFixed(1))])
  }
  table(['system calls for each MB', 'requests', 'reads', 'writes', 'waits', 'other'], rows)
}
