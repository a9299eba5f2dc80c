import t, { type Test } from 'tap'
import { type Engine, engines } from '../helpers/sluice.js'

/** A test that must hold on every engine. */
export function onEngines(name: string, run: (t: Test, engine: Engine) => Promise<void>): void {
  for (const engine of engines) t.test(`${engine}: ${name}`, async (t) => run(t, engine))
}
