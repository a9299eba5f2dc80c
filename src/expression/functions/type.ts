import type { FunctionDefinition } from '../function-definition.js'
import { typeOf } from '../values.js'

const LONG_NAMES: Readonly<Record<string, string>> = {
  timestamp: 'google.protobuf.Timestamp',
  duration: 'google.protobuf.Duration'
}

/** `type(value)`: the same value that the name of the type stands for. `typeValue` gives it by name. */
export function typeFunctions(typeValue: (name: string) => unknown): readonly FunctionDefinition[] {
  return [
    {
      signature: 'type(dyn): type',
      run: (value: unknown) => {
        const name = typeOf(value)
        return typeValue(LONG_NAMES[name] ?? name)
      }
    }
  ]
}
