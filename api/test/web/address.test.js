import { describe, expect, test } from '@jest/globals'
import { parseRoute, routeHash, sensorKey } from '../../web/route.js'

describe('an address of the page', () => {
  test.each([
    ['a/b?c#d e%', { metric: 'ä/?', rows: 'x' }],
    ['küche', {}],
    ['%41', { range: '1d' }],
  ])('gives back the sensor %s and what was chosen', (sensor, query) => {
    const route = parseRoute(routeHash('sensors', query, sensor))
    expect(route).toMatchObject({ view: 'sensors', sensor })
    expect(Object.fromEntries(route.query)).toEqual(query)
  })

  test('leaves out what is empty, and repeats what is several', () => {
    expect(routeHash('live', { q: '', type: undefined, sensor: ['a', 'b'] })).toBe(
      '#/live?sensor=a&sensor=b',
    )
    expect(routeHash('fleet')).toBe('#/fleet')
  })

  test('has the id of a sensor that a browser would leave out of a path', () => {
    expect(['.', '..', '...', 'a'].map((name) => sensorKey(name, 'id'))).toEqual([
      ...['id', 'id', '...', 'a'],
    ])
    expect(new URL('v1/sensors/../latest', 'http://localhost/').pathname).toBe('/v1/latest')
  })

  test.each(['', '#', '#kitchen', '#/nowhere', '#/sensors', '#/sensors/%E0%A4%A', '#/live/x'])(
    'that is none, such as "%s", is the fleet',
    (hash) => {
      expect(parseRoute(hash)).toMatchObject({ view: 'fleet', sensor: undefined })
    },
  )
})
