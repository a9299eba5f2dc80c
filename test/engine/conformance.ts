import type { Test } from 'tap'
import type { Make } from './suite/harness.js'
import { requests } from './suite/requests.js'

/** What every pair of front and back must hold; each point over real sockets with a scripted upstream. */
export function engineSuite(t: Test, name: string, make: Make): void {
  t.test(`${name}: requests`, async (t) => requests(t, make))
}
