import { asker } from '../api/asking.js'
import type { Test } from '../store/opened.js'
import { SluiceProcess } from './process.js'

const KEY = 'a-key-of-the-administrator'
export const LISTEN = ['--listen', '127.0.0.1:0', '--api', '127.0.0.1:0']

/** The product on a folder, with a way to ask its API. */
export async function started(t: Test, cwd: string, words: readonly string[] = [], env: Record<string, string> = {}) {
  const running = new SluiceProcess(t as never, ['start', ...LISTEN, ...words], {
    cwd,
    env: { SLUICE_API_KEY: KEY, ...env }
  })
  const { api } = await running.logged('listening')
  const ask = asker('127.0.0.1', Number(new URL(String(api)).port))
  const stop = async () => {
    running.child.kill('SIGTERM')
    await running.ended()
  }
  return { running, stop, ask: (path: string, asked = {}) => ask(path, { key: KEY, ...asked }) }
}
