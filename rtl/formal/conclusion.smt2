; Conclusion from the assertions of modmul_properties.v, in integers. From
;   2^15 half = c - m1 q,   2^15 r = half - m2 q or half - m2 q + 2^15 q,
; it follows that 2^30 r = c - k q with k = m1 + 2^15 m2 or k = m1 + 2^15 m2 - 2^30.
; The solver searches for a counterexample with each prime, and finds none.
(define-fun counterexample ((q Int) (c Int) (half Int) (r Int) (m1 Int) (m2 Int)) Bool
  (and (= (* 32768 half) (- c (* q m1)))
       (or (= (* 32768 r) (- half (* q m2))) (= (* 32768 r) (+ (- half (* q m2)) (* 32768 q))))
       (not (= (* 1073741824 r) (- c (* q (+ m1 (* 32768 m2))))))
       (not (= (* 1073741824 r) (- c (* q (- (+ m1 (* 32768 m2)) 1073741824)))))))
(declare-const c Int)
(declare-const half Int)
(declare-const r Int)
(declare-const m1 Int)
(declare-const m2 Int)
(assert (or (counterexample 134250497 c half r m1 m2) (counterexample 134348801 c half r m1 m2)
            (counterexample 136314881 c half r m1 m2) (counterexample 138412033 c half r m1 m2)))
(check-sat)
