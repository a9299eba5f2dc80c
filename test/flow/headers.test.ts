import t from 'tap'
import { HeaderFields } from '../../src/flow/headers.js'
import { numbers } from '../helpers/numbers.js'

const NAMES = ['Host', 'Cookie', 'cookie', 'X-Request-Id', 'x-b']

t.test('fields change as a plain list would, and a list that was taken stays as it was', async (t) => {
  const next = numbers(7)
  const oneOf = () => NAMES[next(NAMES.length)] as string
  for (let run = 0; run < 500; run++) {
    const first = ['Host', 'a.example', 'Cookie', 'a=1']
    const fields = new HeaderFields(first)
    let model: string[] = [...first]
    const taken: { readonly list: readonly string[]; readonly was: string }[] = [{ list: first, was: String(first) }]
    const without = (name: string) =>
      model.filter((_, at) => model[at - (at % 2)]?.toLowerCase() !== name.toLowerCase())
    for (let step = 0; step < 12; step++) {
      const [name, value] = [oneOf(), String(step)]
      const what = next(4)
      if (what === 0) {
        fields.append(name, value)
        model = [...model, name, value]
      } else if (what === 1) {
        fields.set(name, value)
        model = [...without(name), name, value]
      } else if (what === 2) {
        fields.delete(name)
        model = without(name)
      } else taken.push({ list: fields.list, was: String(model) })
      const values = model.filter((_, at) => at % 2 === 1 && model[at - 1]?.toLowerCase() === 'cookie')
      if (String(fields.values('Cookie')) !== String(values)) t.fail(`values after ${step} of run ${run}`)
    }
    t.same(fields.list, model)
    for (const { list, was } of taken) t.equal(String(list), was)
  }
})
