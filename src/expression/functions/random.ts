import { EvaluationError } from '../expression.js'
import type { FunctionDefinition } from '../function-definition.js'

const BAD_RANGE = new EvaluationError('failed', 'rand.int(min, max) takes 0 <= min <= max up to 2^53 - 1')

/** `rand.*` over `random`, which gives numbers in [0, 1). The ends of `rand.int` are both possible. */
export function randomFunctions(random: () => number): readonly FunctionDefinition[] {
  return [
    { signature: 'rand.double(): double', run: () => random() },
    { signature: 'rand.int(): int', run: () => (random() < 0.5 ? 0n : 1n) },
    {
      signature: 'rand.int(int, int): int',
      run: (min: bigint, max: bigint) => {
        if (min < 0n || max < min || max > BigInt(Number.MAX_SAFE_INTEGER)) throw BAD_RANGE
        return min + BigInt(Math.floor(random() * Number(max - min + 1n)))
      }
    }
  ]
}
