import { describe, expect, test } from '@jest/globals'
import { decodeCursor, encodeCursor } from '../src/cursor.js'

describe('a cursor', () => {
  const cursor = encodeCursor('measurements', ['id', null, 5], [1767225600000, 'größe', 3])

  test('gives back what was put in', () => {
    expect(decodeCursor('measurements', cursor)).toEqual({
      question: ['id', null, 5],
      position: [1767225600000, 'größe', 3],
    })
  })

  test('is refused when any character is another, or missing', () => {
    for (let at = 0; at < cursor.length; at += 1) {
      const other = cursor[at] === 'A' ? 'B' : 'A'
      for (const broken of [
        cursor.slice(0, at) + other + cursor.slice(at + 1),
        cursor.slice(0, at) + cursor.slice(at + 1),
        cursor.slice(0, at),
        `${cursor.slice(0, at)} ${cursor.slice(at)}`,
      ]) {
        expect(() => decodeCursor('measurements', broken)).toThrow('cursor is broken')
      }
    }
  })

  test('of another list is refused', () => {
    expect(() => decodeCursor('sensors', cursor)).toThrow('cursor belongs to the list of')
  })
})
