import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { KEY } from './account.js'

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url))
const MEMORY = new URL('./memory.js', import.meta.url).href

export interface Product {
  readonly pid: number
  /** Ports. */
  readonly traffic: number
  readonly api: number
  /** Bytes of the heap that are in use after a collection. */
  heap(): Promise<number>
  stop(): Promise<void>
}

/** The whole program on free ports, with its data in `folder`. `environment`: what it has beside. */
export async function startProduct(
  folder: string,
  environment: Readonly<Record<string, string>> = {}
): Promise<Product> {
  const words = ['--expose-gc', '--import', MEMORY, MAIN, 'start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']
  const child = spawn(process.execPath, words, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: {
      ...process.env,
      SLUICE_DATA: folder,
      SLUICE_API_KEY: KEY,
      SLUICE_ACCESS_LOG: 'off',
      ...environment
    }
  })
  const { traffic, api } = await listening(child)
  return {
    pid: child.pid as number,
    traffic,
    api,
    async heap() {
      const answered = once(child, 'message')
      child.send('heap')
      const [bytes] = (await answered) as [number]
      return bytes
    },
    async stop() {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    }
  }
}

/** The ports of a program that has just been started, once it listens. `heard`: called with each line of its log before that. */
export async function listening(
  child: ChildProcess,
  heard: (line: string) => void = () => undefined
): Promise<{ traffic: number; api: number }> {
  const lines = createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })
  return await new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the program ended with ${code}`)))
    lines.on('line', (line) => {
      heard(line)
      if (!line.includes('"msg":"listening"')) return
      const { traffic, api } = JSON.parse(line) as { traffic: string; api: string }
      resolve({ traffic: Number(new URL(traffic).port), api: Number(new URL(api).port) })
    })
  })
}
