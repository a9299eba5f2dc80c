import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'

/** A free loopback port. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}

/** Path of a program, or undefined when the machine lacks it. */
export function findProgram(name: string): string | undefined {
  for (const folder of [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/sbin']) {
    try {
      execFileSync(`${folder}/${name}`, [name === 'caddy' ? 'version' : '-v'], { stdio: 'ignore' })
      return `${folder}/${name}`
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' && (error as { status?: number }).status !== undefined) {
        return `${folder}/${name}`
      }
    }
  }
  return undefined
}

export interface Running {
  readonly child: ChildProcess
  /** Returns why the program has ended, with its last words, as the end of a message; empty while it runs. */
  failure(): string
  stop(): Promise<void>
}

/** Programs that run; none outlives the benchmark, even if that fails. */
const programs = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of programs) child.kill('SIGKILL')
})

/** Starts a program on one CPU (where `taskset` is there) and waits until every port of `ports` accepts. */
export async function startProgram(
  command: string,
  args: readonly string[],
  ports: number | readonly number[],
  options: {
    cpu?: number | string
    env?: Readonly<Record<string, string>>
    /** Takes what the program writes to its standard output. */
    output?: (text: string) => void
  } = {}
): Promise<Running> {
  const pinned = options.cpu !== undefined && findProgram('taskset') !== undefined
  const [program, argv] = pinned ? ['taskset', ['-c', String(options.cpu), command, ...args]] : [command, [...args]]
  const child = spawn(program as string, argv as string[], {
    stdio: ['ignore', options.output === undefined ? 'ignore' : 'pipe', 'pipe'],
    env: { ...process.env, ...options.env }
  })
  programs.add(child)
  child.once('exit', () => programs.delete(child))
  child.stdout?.setEncoding('latin1').on('data', (text: string) => options.output?.(text))
  let said = ''
  child.stderr?.on('data', (chunk) => {
    said = (said + chunk).slice(-2_000)
  })
  const running: Running = {
    child,
    failure: () => (child.exitCode === null ? '' : `; it has ended (${child.exitCode}):\n${said}`),
    stop: () =>
      new Promise((resolve) => {
        if (child.exitCode !== null) resolve()
        child.once('exit', () => resolve())
        child.kill('SIGTERM')
        setTimeout(() => child.kill('SIGKILL'), 2_000).unref()
      })
  }
  for (let attempt = 0; attempt < 400; attempt++) {
    if (child.exitCode !== null) throw new Error(`${command} ended at once:\n${said}`)
    if (await accept([ports].flat())) return running
  }
  await running.stop()
  throw new Error(`${command} does not accept on ${ports}:\n${said}`)
}

async function accept(ports: readonly number[]): Promise<boolean> {
  for (const port of ports) if (!(await accepts(port))) return false
  return true
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const end = (accepted: boolean) => {
      socket.destroy()
      if (accepted) resolve(true)
      else setTimeout(() => resolve(false), 50)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
  })
}

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))

/** CPU seconds (user and system) of a process and its descendants, from the kernel's own accounting. */
export function cpuSeconds(pid: number): number {
  let total = ticks(pid)
  for (const child of children(pid)) total += cpuSeconds(child) * TICKS_PER_SECOND
  return total / TICKS_PER_SECOND
}

function ticks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

/** Processes that `pid` has started. */
export function children(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

/** Resident memory of a process, in MiB. */
export function residentMegabytes(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(match?.[1] ?? 0) / 1_024
}
