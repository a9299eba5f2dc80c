import type { Test } from 'tap'
import { breaks } from './suite/breaks.js'
import { connections } from './suite/connections.js'
import { earlyAnswers } from './suite/early-answers.js'
import { endings } from './suite/endings.js'
import type { Make } from './suite/harness.js'
import { requests } from './suite/requests.js'
import { responses } from './suite/responses.js'
import { storms } from './suite/storms.js'

/** What every pair of front and back must hold; each point over real sockets with a scripted upstream. */
export function engineSuite(t: Test, name: string, make: Make): void {
  t.test(`${name}: requests`, async (t) => requests(t, make))
  t.test(`${name}: responses`, async (t) => responses(t, make))
  t.test(`${name}: breaks and time-outs`, async (t) => breaks(t, make))
  t.test(`${name}: early answers`, async (t) => earlyAnswers(t, make))
  t.test(`${name}: endings`, async (t) => endings(t, make))
  t.test(`${name}: connections`, async (t) => connections(t, make))
  t.test(`${name}: storms`, async (t) => storms(t, make))
}
